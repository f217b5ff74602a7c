"""Wrong routers."""

from grader.exercises.references import change

TOP = "chosen_Tk, experts_Tk = logits_TE.topk(k)"
WEIGHTS = "chosen_Tk.softmax(-1)"
QUEUE = "queue = experts_Tk.T.flatten()"
BACK = ".view(k, -1).T"
RETURN = "return experts_Tk, chosen_Tk.softmax(-1), kept_Tk"

CHANGES = (
    change("another queue", QUEUE, "queue = experts_Tk.flatten()", BACK, ".view(-1, k)"),
    change("wrong experts", "topk(k)", "topk(k, largest=False)"),
    change("wrong experts", TOP, f"{TOP}; chosen_Tk, experts_Tk = chosen_Tk.flip(1), experts_Tk.flip(1)"),
    change("wrong experts", TOP, f"{TOP}; experts_Tk, order = experts_Tk.sort(1); chosen_Tk = chosen_Tk.gather(1, order)"),
    change("softmax over all", WEIGHTS, "logits_TE.softmax(-1).gather(1, experts_Tk)"),
    change("wrong weights", WEIGHTS, "chosen_Tk"),
    change("wrong weights", WEIGHTS, "chosen_Tk.softmax(0)"),
    change("wrong weights", WEIGHTS, "chosen_Tk.sigmoid() / chosen_Tk.sigmoid().sum(-1, keepdim=True)"),
    change("weights of the kept", WEIGHTS, "chosen_Tk.softmax(-1) * kept_Tk"),
    change("weights of the kept", WEIGHTS, "chosen_Tk.masked_fill(~kept_Tk, float('-inf')).softmax(-1).nan_to_num()"),
    change("another queue", QUEUE, "queue = experts_Tk.flip(0).T.flatten()", BACK, ".view(k, -1).T.flip(0)"),
    change("another queue", QUEUE, "queue = experts_Tk.flip(1).T.flatten()", BACK, ".view(k, -1).T.flip(1)"),
    change("another queue", "asked = ", "weights = chosen_Tk.softmax(-1).T.flatten()\n"
           "    rank = weights.argsort(descending=True, stable=True)\n"
           "    queue = queue[rank]\n    asked = ", "(place <= capacity)", "(place <= capacity)[rank.argsort()]"),
    change("each choice by itself", "kept_Tk = (place <= capacity)",
           "kept_Tk = torch.cat([F.one_hot(column, 99).cumsum(0).gather(1, column[:, None]) <= capacity\n"
           "                         for column in experts_Tk.T])"),
    change("other dtype", WEIGHTS, "chosen_Tk.softmax(-1, dtype=torch.float32)"),
    change("one too many", "place <= capacity", "place - 1 <= capacity"),
    change("one too many", "place <= capacity", "place < capacity"),
    change("capacity ignored", "place <= capacity", "place <= place"),
    change("kept and dropped exchanged", "place <= capacity", "place > capacity"),
    change("whole tokens dropped", RETURN, f"kept_Tk = kept_Tk.all(1, keepdim=True).expand(-1, k)\n    {RETURN}"),
    change("no gradient", WEIGHTS, "chosen_Tk.detach().softmax(-1)"),
    change("changed in place", TOP, f"logits_TE -= logits_TE.max()\n    {TOP}"),
    change("three tensors", RETURN, "return experts_Tk, chosen_Tk.softmax(-1)"),
    change("kept elsewhere", BACK, ".view(-1, k)"),
    change("wrong gradient", WEIGHTS, "(chosen_Tk.softmax(-1).detach() + 2 * (chosen_Tk.softmax(-1)"
                                      " - chosen_Tk.softmax(-1).detach()))"),
    change("wrong experts", TOP, f"{TOP}; experts_Tk = experts_Tk + 1", "logits_TE.shape[1])", "logits_TE.shape[1] + 1)"),
    change("wrong kept", "asked.gather(1, queue[:, None])", "torch.arange(1, len(queue) + 1)[:, None]"),
    change("wrong weights", WEIGHTS, "(chosen_Tk / k ** 0.5).softmax(-1)"),
)

EQUIVALENT = {"return experts_Tk, chosen_Tk.softmax(-1), kept_Tk | -1 → 1": "the last of two dimensions is number 1."}
