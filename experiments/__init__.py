"""The fair trial of softmax, CRF and MCRF: from one command to one table.

`python -m experiments.run small` trains (`trainings` says what, `train` how, `measure` what is scored) and adds a line
a training to `results` (`result_files`). `python -m experiments.page` reads them: `choice` takes each row's best rate,
`statistics` asks what is more than chance, `claims` judges, `tables`, `figures` and `sentences` show, and `templates`
hold the prose around them. `defaults` decides settings on dev.
"""
