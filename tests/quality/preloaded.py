"""What a command or a worker may need, imported once for all that are forked."""
# ruff: noqa: F401

import PIL.Image
import PIL.ImageOps
import scipy.cluster.hierarchy
import scipy.optimize
import torch

import swerve.execution.executors.worker
import swerve.methods.deeptest
import swerve.methods.lidar
import swerve.relations.gates
import swerve.sources.folders
import swerve.systems.steps
import swerve.systems.torch
import swerve.transformations.affine
import swerve.transformations.blur
import tests.quality.campaigns
import tests.quality.test_lidar_identity
import tests.unit.test_fuzz
