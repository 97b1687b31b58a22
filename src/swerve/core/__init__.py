"""The data model: values, cases, changes, systems, relations and campaigns. Imports only the standard library and numpy."""
