"""Connect's data: schemas, values that carry their type, and how both are written as text."""
