"""What all tests share."""

from hypothesis import settings

settings.register_profile("swerve", deadline=None)  # a busy machine is no fault
settings.load_profile("swerve")
