"""How pass_right must be done, and how it can fail."""

from dataclasses import replace

from grader.exercises.technique.collectives import INPUT_OVERWRITTEN, calls_made, message_to_itself
from grader.judging.demands import messages_at_most, only_calls, results_waited, ring_neighbours, sends_waited, tensor_bytes
from grader.judging.exercise import Symptom, Technique
from grader.judging.needs import needs
from grader.judging.symptoms import deadlocked, forgotten_send, group_ignored, no_such_rank, unwaited, wrong_ranks
from utils.trace.calls import POINT_TO_POINT

TECHNIQUE = Technique(
    demands=(
        only_calls(*sorted(POINT_TO_POINT, reverse=True), hint="A collective involves every rank; here each rank "
                   "needs one message. Use only send, recv, isend, irecv or batch_isend_irecv."),
        ring_neighbours("The right tensors arrive, but by a detour: send to the next rank only."),
        messages_at_most(calls_made, "one message a rank",
                         "The right tensors arrive, but one message a rank is enough."),
        needs(lambda look, r: [("send", calls_made(look, r) * tensor_bytes(look, r)),
                               ("recv", calls_made(look, r) * look.right[r].nbytes)]),
        results_waited(),
        sends_waited(),
    ),
    symptoms=(
        forgotten_send(),
        deadlocked("cycle of receives", "Everybody receives first, so nobody sends. Someone must send first: start "
                   "with isend, which does not wait, then receive, then wait."),
        deadlocked("cycle of sends", "Everybody sends first, and a send ends only when it is received. Start the send "
                   "without waiting (isend), receive, then wait for the send."),
        deadlocked("receive from the wrong rank", "Each tensor goes one way and is awaited from the other: send to the "
                   "rank after, receive from the rank before."),
        replace(message_to_itself("With one rank there is no neighbour: the tensor comes back to its own rank without a "
                                  "message."), id="no neighbour"),
        replace(INPUT_OVERWRITTEN, hint="x is overwritten while it is still being sent: receive into a new tensor "
                "(torch.empty_like(x)), and leave x as it is until work.wait()."),
        Symptom("sender returned", "dist.recv returns the number of the sender; the message is written into the tensor "
                "that you gave it.", wrong_ranks(lambda _, rank, found, right: isinstance(found, int))),
        unwaited(),
        group_ignored(),
        no_such_rank("After the last rank comes rank 0: the next rank is (r + 1) % n, the one before (r − 1) % n."),
    ),
)
