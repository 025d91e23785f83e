"""Pictures of docs/, each drawn by a script from a run, a table or the imports."""
