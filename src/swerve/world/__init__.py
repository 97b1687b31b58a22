"""The embedded world: procedural driving scenes, cast and shaded here, with labels from the same triangles."""
