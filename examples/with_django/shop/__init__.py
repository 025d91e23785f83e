"""A shop on Django, whose tasks tolliver runs."""
