"""Which packages there are: the folders at the top level are ``deltaberg.iceberg``, ``deltaberg.delta`` and so on.

Everything else is in pyproject.toml, whose finder cannot give a folder another name.
"""

from setuptools import find_packages, setup

LAYERS = ("iceberg", "delta", "translate", "migrate")

setup(
    packages=[
        *find_packages(include=["deltaberg", "deltaberg.*"]),
        *(f"deltaberg.{layer}" for layer in LAYERS),
        *(f"deltaberg.{layer}.{package}" for layer in LAYERS for package in find_packages(layer)),
    ],
    package_dir={f"deltaberg.{layer}": layer for layer in LAYERS},
)
