"""Tables of tasks, for `manage.py migrate`."""
