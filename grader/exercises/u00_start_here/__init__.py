ORDER = ()
