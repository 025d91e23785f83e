"""tolliver in PySpark: recordings as tables, tables as messages, and the delivery audit."""
