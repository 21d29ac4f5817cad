"""Gives the tests of the virtual machine the fixture `machine` of the functional tests."""

import importlib.util
import pathlib
import sys

_path = pathlib.Path(__file__).parents[1] / "functional" / "conftest.py"
sys.path.insert(0, str(_path.parent))  # for what it imports
_spec = importlib.util.spec_from_file_location("functional_conftest", _path)
_functional = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_functional)

machine = _functional.machine
pytest_addoption = _functional.pytest_addoption
pytest_configure = _functional.pytest_configure
