"""Protobuf classes for the tests, made from descriptors as generated code makes them."""

from google.protobuf import descriptor_pb2, message_factory, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool

INT64, STRING, MESSAGE, ENUM = 3, 9, 11, 14
OPTIONAL, REQUIRED, REPEATED = 1, 2, 3


def classes(prefix=""):
    """Order (with Line inside it), Other, Need and Far, which the file of Order imports."""
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    far = descriptor_pb2.FileDescriptorProto(name=f"{prefix}far.proto", package="shop", syntax="proto3")
    far.message_type.add(name="Far").field.add(name="x", number=1, type=INT64, label=OPTIONAL)
    pool.Add(far)
    file = descriptor_pb2.FileDescriptorProto(name=f"{prefix}order.proto", package="shop", syntax="proto3")
    file.dependency.extend([f"{prefix}far.proto", "google/protobuf/timestamp.proto"])
    other = file.message_type.add(name="Other")
    other.field.add(name="y", number=1, type=STRING, label=OPTIONAL)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=INT64, label=OPTIONAL)
    order.field.add(name="lines", number=2, type=MESSAGE, label=REPEATED, type_name=".shop.Order.Line")
    order.field.add(name="far", number=3, type=MESSAGE, label=OPTIONAL, type_name=".shop.Far")
    order.field.add(name="at", number=4, type=MESSAGE, label=OPTIONAL, type_name=".google.protobuf.Timestamp")
    order.nested_type.add(name="Line").field.add(name="sku", number=1, type=STRING, label=OPTIONAL)
    pool.Add(file)
    need = descriptor_pb2.FileDescriptorProto(name=f"{prefix}need.proto", package="shop", syntax="proto2")
    need.message_type.add(name="Need").field.add(name="x", number=1, type=INT64, label=REQUIRED)
    pool.Add(need)
    names = {"Order": "Order", "Line": "Order.Line", "Other": "Other", "Need": "Need", "Far": "Far"}
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{full}"))
        for name, full in names.items()
    }
