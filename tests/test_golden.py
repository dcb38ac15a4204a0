"""The stored vectors of the dialects are what their program computes, and it knows nothing of what it judges."""

import subprocess
import sys


def test_the_stored_vectors_are_what_the_program_computes(root):
    script = root / "conformance" / "golden" / "vectors.py"
    code = f"import runpy, sys; sys.argv = ['vectors.py', '--check']; sys.path.insert(0, {str(script.parent)!r}); "
    code += (
        f"runpy.run_path({str(script)!r}, run_name='__main__'); assert 'zeropower' not in sys.modules; print('equal')"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert answer.stdout.strip() == "equal", answer.stderr
