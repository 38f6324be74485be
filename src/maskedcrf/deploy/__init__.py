"""What happens after training: pictures and reports, ONNX, the HTTP service, bulk tagging."""
