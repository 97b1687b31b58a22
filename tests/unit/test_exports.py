import swerve


def test_every_export_exists() -> None:
    assert all(getattr(swerve, name) is not None for name in swerve.__all__)


def test_exports_are_sorted_and_complete() -> None:
    assert swerve.__all__ == sorted(swerve.__all__, key=lambda name: (not name.isupper(), name))  # as ruff wants it
    public = {name for name, item in vars(swerve).items() if getattr(item, "__module__", "").startswith("swerve.")}
    assert public <= set(swerve.__all__)


def test_unknown_export_is_an_attribute_error() -> None:
    assert not hasattr(swerve, "Nonsense")
