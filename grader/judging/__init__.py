"""From evidence to a verdict; pure.

exercise: an exercise is data. judge: the verdict. verdict: as text and HTML. html: templates. feedback: as a student gets it
back. demands: on the technique. symptoms: ways to be wrong. network: what crossed the network against the calls.
"""
