"""Four detectors of traffic lights, trained on the junctions of the embedded world, and what they share."""
