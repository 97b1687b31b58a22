"""An outside program that Swerve can test, in Python and numpy alone: copy it and put your model into `answer`.

In a campaign file beside it:

    [system]
    use = "process"
    command = ["python", "program.py"]
    folder = "."
"""

import json
import struct
import sys

import numpy as np

PREFIX = struct.Struct("<4sIQ")  # SWRV, bytes of the header, bytes of the body
frames_in, frames_out = sys.stdin.buffer, sys.stdout.buffer
sys.stdout = sys.stderr  # a print must not get between the frames


def answer(inputs):
    """What the model says of one case: here, it steers left by the grey levels above 100."""
    return [{"slot": "steering", "degrees": float(inputs["camera"].mean()) - 100.0}]


def array(place, body):
    """The numbers that a place in the body holds."""
    count = int(np.prod(place["shape"]))
    return np.frombuffer(body, place["dtype"], count, place["offset"]).reshape(place["shape"])


def reply(question, body):
    """The header that answers a question."""
    if question["ask"] == "hello":
        return {"protocol": 1, "name": "brightness", "fingerprint": "version 1"}
    cases = [{name: array(value["pixels"], body) for name, value in case["inputs"].items()} for case in question["cases"]]
    return {"answers": [answer(inputs) for inputs in cases]}


while prefix := frames_in.read(PREFIX.size):
    magic, header_length, body_length = PREFIX.unpack(prefix)
    question, body = json.loads(frames_in.read(header_length)), frames_in.read(body_length)
    header = json.dumps({"number": question["number"], **reply(question, body)}).encode()
    frames_out.write(PREFIX.pack(b"SWRV", len(header), 0) + header)
    frames_out.flush()
