"""A model for programs that do not run Python: SQL and ONNX."""
