"""Where cases come from: recorded drives, folders of frames, and rendered roads."""
