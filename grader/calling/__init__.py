"""How functions are called inside a rank. Runs beside student code, so nothing here is trusted, or a secret."""
