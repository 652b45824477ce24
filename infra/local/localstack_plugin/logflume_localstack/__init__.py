"""A LocalStack plugin: what the community edition needs to run this project without Docker."""
