"""Random training graphs: of a table of layers, run as scripts, judged, made smaller."""
