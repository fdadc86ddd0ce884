"""The life of grants on a live machine: commands go in; events, and actions for agents, come out.

`Control.handle` decides and changes nothing. Only `Control.apply` changes the state, by one event. So the events, in
order, determine the state: applying them again gives the same state.
"""
