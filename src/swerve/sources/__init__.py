"""Where cases come from: recorded drives, folders of frames, windows over them."""
