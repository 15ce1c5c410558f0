"""Jobs that do IO: open, inspect, plan, convert, verify.

The functions stand in their modules (``deltaberg.migrate.plan.plan``), so that importing the package costs nothing.
"""
