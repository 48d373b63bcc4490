"""What mps_graphs.py draws: networks of MPS nodes, and what PyTorch makes of them."""
