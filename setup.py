"""What pyproject.toml cannot say: BUILD_LOOPS=1 compiles the loops in C; otherwise the wheel is pure Python."""

import os

from setuptools import Extension, setup

LOOPS = Extension(
    "salience.store._loops",
    ["src/salience/store/_loops.c"],
    extra_compile_args=["-O3", "-ffp-contract=off"],  # the same bits with and without fused instructions
    py_limited_api=True,
    optional=True,  # without a compiler or the headers of Python, NumPy does the same, more slowly
)

if os.environ.get("BUILD_LOOPS") == "1":
    setup(ext_modules=[LOOPS], options={"bdist_wheel": {"py_limited_api": "cp311"}})
else:
    setup()
