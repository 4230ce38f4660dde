"""Lines of a file: FileStreamSource reads them, FileStreamSink appends them."""
