"""The `swerve` command, one module per verb."""
