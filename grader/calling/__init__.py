"""How functions are called inside a rank. Runs beside student code, so nothing here is trusted, or a secret.

checked: what a check is given. handing_out: what ranks are given of a case, cut outside. task: what a rank does with both.
collect: what comes of it on ranks. forbidden: what it may not use. weighing: when it stands still to be looked at. The other
files: ways to call it that exercises share.
"""
