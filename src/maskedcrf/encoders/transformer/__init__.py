"""Pretrained Hugging Face encoders, with long texts cut into windows."""
