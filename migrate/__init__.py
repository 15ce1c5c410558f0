"""Jobs that do IO: plan, convert, verify, rewrite."""
