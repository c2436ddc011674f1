"""Random programs, run in every way that fgrad has, and held to what others say of them.

`python -m tests.fuzz --minutes 30 --seed N` runs fresh ones. Values are NumPy's; derivatives agree between
forward and reverse mode, compiled and eager code, mapped functions and loops, and with the witnesses in
`witnesses`: differences in extended precision, complex steps, fifty digits, and JAX where it is installed.
What is found is made smaller and printed as a script. Programs of managers, in `managers`, are compared with
polynomials in nilpotent variables, which know every order exactly:
`python -m pytest -m "" tests/fuzz/test_managers.py`.
"""
