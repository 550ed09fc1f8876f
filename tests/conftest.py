"""Random tests run with the same examples every time; with MOTET_EXPLORE they run with new ones.

`make test` is the first way: a failure is always that of the change at hand. `make explore` is the second. Kernels run
as compiled code, which is what long processes run; `tests/jit` has the tests of interpreted ones.
"""

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from motet.jit.compiled import interpret_no_more

interpret_no_more()

SLOW = [HealthCheck.too_slow]  # depends on what else the machine does

settings.register_profile("fixed", deadline=None, derandomize=True, database=None, suppress_health_check=SLOW)
settings.register_profile("explore", deadline=None, max_examples=300, print_blob=True, suppress_health_check=SLOW)

if os.environ.get("MOTET_EXPLORE"):
    settings.load_profile("explore")
else:
    settings.load_profile("fixed")
    # Hypothesis also draws constants of the modules that happen to be imported: other ones in another order of tests.
    vars(providers)["is_local_module_file"] = lambda _: False
