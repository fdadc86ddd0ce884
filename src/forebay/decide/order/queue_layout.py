"""The layout of the array that holds the queue of an I/O node.

    head | slots (a record for each request) | heap | servers | files | flows | table of contiguous requests

Records refer to each other by address: the index of their first word in the array. No record has address 0, so 0
means none, and an array of zeros is a queue with empty lists: unused files cost nothing.
"""

NEVER = 2**63 - 1  # later than any time
NONE = -1  # no slot
NO_SUCH = -2  # an invalid request: unknown server, file or flow, or negative size or offset

# The head. WAKE is the first word that callers read.
WAKE = 0  # when to call `take` again after NONE, in nanoseconds
SCHEDULER = 1  # its number, see below
WAITING = 2
IN_FLIGHT = 3  # messages sent and not yet answered
MOST_IN_FLIGHT = 4  # messages
FIRST = 5  # of the waiting requests, in the order of arrival; the next word is the last
FREE = 7  # the first free slot
ARRIVED = 8  # requests so far
LEFT = 9  # requests so far that stopped waiting
AGGREGATE = 10  # most bytes of a message of several requests; 0 sends each alone
PATIENCE = 11  # how many later requests may overtake one
QUANTUM = 12  # messages of one file in its turn
CURRENT = 13  # the file whose turn it is
WINDOW = 14  # nanoseconds that twins stays on one server; 0: no windows, as fifo
NODE = 15  # this I/O node's number
WINDOW_BEGIN = 16  # of the latest window
WINDOW_END = 17
WINDOW_SERVER = 18
VIRTUAL = 19  # wfq: virtual time
EPOCH = 20  # wfq: number of restarts of virtual time
HEAPED = 21  # requests in the heap
SERVERS = 22
SLOTS = 23
FILES = 24
FLOWS = 25
HEAP_AT = 26  # where each region begins
SERVERS_AT = 27
FILES_AT = 28
FLOWS_AT = 29
TABLE_AT = 30
TABLE_MASK = 31  # places in the table, minus one
PATIENT = 32  # whether PATIENCE applies
GIVEN_IN_FLIGHT = 33  # the caller's MOST_IN_FLIGHT; 0: it follows from the scheduler
NOTES_AT = 48  # what a scheduler of another package remembers
NOTES = 16
SLOTS_AT = 64

FIFO, SJF, HBRR, TO_AGG, MLF, WFQ, TWINS, TWINS_WORK_CONSERVING, OTHER = range(9)  # schedulers

# A request's record.
SLOT_SHIFT = 4  # 16 words: two cache lines
S_NEXT = 0  # in the order of arrival; of free slots; of the requests of one message; after each NEXT, the previous
S_STATE = 2
S_GROUP_NEXT = 4  # in the list of its file or server, if the scheduler has lists
S_KEY = 4  # in the heap, which schedulers with lists do not use
S_PLACE = 5
S_SERVER = 6
S_FILE = 7
S_FLOW = 8
S_OFFSET = 9
S_SIZE = 10
S_WRITE = 11
S_SERIAL = 12  # number of requests that arrived before it
S_TIME = 13  # of its arrival, in nanoseconds
S_TABLE_NEXT = 14
S_TABLE_PREVIOUS = 15

FREED, WAITS, SENT, FOLLOWS = 0, 1, 2, 3  # states

# A server's or a file's record.
GROUP_SHIFT = 3
G_FIRST = 0  # the next word is the last
G_COUNT = 2  # servers: waiting requests
G_NEXT = 3  # in the ring of files that have requests
G_PREVIOUS = 4
G_TURN = 5  # messages left in its turn
G_LEVEL = 6

# A flow's record.
FLOW_SHIFT = 2
F_WEIGHT = 0  # 0 stands for 1
F_FINISH = 1  # virtual time at which its latest request finishes
F_EPOCH = 2

TABLE_SHIFT = 1  # first and last of the requests at one place of the table
