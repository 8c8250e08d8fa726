"""What pyproject.toml cannot say yet: one module in C, for every Python from 3.11 on."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "salience.store._loops",
            ["src/salience/store/_loops.c"],
            extra_compile_args=["-O3", "-ffp-contract=off"],  # the same bits with and without fused instructions
            py_limited_api=True,
            optional=True,  # without a compiler or the headers of Python, NumPy does the same, more slowly
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
