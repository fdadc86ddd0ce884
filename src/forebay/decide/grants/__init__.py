"""The life of grants on a live machine: commands in, events out, and what agents are still to do.

`Control.handle` decides and changes nothing; `Control.apply` changes the state by one event, and nothing else does. So
the events, in their order, are the whole truth: whoever applies them has the same state.
"""
