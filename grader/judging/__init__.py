"""From evidence to a verdict; pure.

exercise: an exercise is data. slips: mistakes in results. symptoms: mistakes of technique or of failure. general: those
that any function can make. demands: on the technique. needs: what must have crossed between ranks. network: what crossed
against the calls. compare: where two results first differ. judge: the verdict. faults: that on a program with faults that
are not named. verdict: as text and HTML. html: templates.
"""
