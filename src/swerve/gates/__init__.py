"""Gates: what makes a follow-up no fair question, whatever the system answers to it."""
