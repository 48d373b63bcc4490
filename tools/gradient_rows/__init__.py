"""The table of gradients: layers and their options, the numbers of each, and what judges them."""
