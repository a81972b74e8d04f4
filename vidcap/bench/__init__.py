"""Methods side by side on one data set: speed, acceptance, exact match, accuracy.

``datasets`` says which clips, ``arms`` which methods, ``runner`` runs them in turn, ``results``
keeps what each run gave, ``metrics`` pools that and ``report`` prints it.
"""
