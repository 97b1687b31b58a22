"""The vocabulary: values, cases, changes, systems, relations and campaigns; the standard library and numpy alone."""
