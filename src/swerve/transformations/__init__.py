"""The changes that come with Swerve: photometric, affine, blur and weather, each with its paper's table as its grid."""
