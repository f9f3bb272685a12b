"""What is put in front of a method goes, and leaves what was there before."""

import contextvars
import functools
import gc
import itertools
import threading
import types
import weakref

import pytest

from gradwatch._shadow import Shadows, is_shadow, is_shadowed, looked_up_late


class Thing:
    """Has a method."""

    def greet(self, name):
        """Say hello."""
        return [f"hello {name}"]


def saying(word):
    """Something to put in front, which adds a word of its own."""

    def around(call, *args, **kwargs):
        return [word, *call(*args, **kwargs)]

    return around


def in_thread(call):
    """What a call gives in another thread."""
    found = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


def test_it_is_in_front_until_it_is_closed():
    """The instance is left with nothing on it; the class never had anything."""
    thing, method = Thing(), vars(Thing)["greet"]
    with Shadows() as shadows:
        shadows.put(thing, "greet", saying("a"))
        assert thing.greet("x") == ["a", "hello x"]
        assert thing.greet(name="x") == ["a", "hello x"]
        assert Thing().greet("x") == ["hello x"]
        assert vars(Thing)["greet"] is method
    assert thing.greet("x") == ["hello x"]
    assert vars(thing) == {}


def test_what_the_user_put_on_the_instance_is_used_and_comes_back():
    """The very object, whatever it is."""
    thing = Thing()
    own = functools.partial(lambda word, name: [word + name], "own ")
    thing.greet = own
    with Shadows() as shadows:
        shadows.put(thing, "greet", saying("a"))
        assert thing.greet("x") == ["a", "own x"]
    assert vars(thing) == {"greet": own}


def test_what_the_user_put_there_meanwhile_stays():
    """It is theirs, and not what was there before."""
    thing = Thing()
    with Shadows() as shadows:
        shadows.put(thing, "greet", saying("a"))
        thing.greet = mine = lambda name: ["mine", name]
        with Shadows() as others:
            others.put(thing, "greet", saying("b"))
            assert thing.greet("x") == ["b", "mine", "x"]
        assert thing.greet("x") == ["mine", "x"]
    assert vars(thing) == {"greet": mine}


def test_who_kept_the_stand_in_has_the_original_afterwards():
    """Another tool may have wrapped what it found, and put that back."""
    thing = Thing()
    with Shadows() as shadows:
        shadows.put(thing, "greet", saying("a"))
        kept = thing.greet
    assert kept("x") == ["hello x"]


@pytest.mark.parametrize("own", [False, True], ids=["class", "instance"])
@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_they_may_be_closed_in_any_order(order, own):
    """Those that are left still see the call, the first one outermost."""
    thing = Thing()
    if own:
        thing.greet = lambda name: [f"own {name}"]
    before, said = dict(vars(thing)), thing.greet("x")
    open_now = {}
    for word in "abc":
        open_now[word] = Shadows()
        open_now[word].put(thing, "greet", saying(word))
    for word in order:
        assert thing.greet("x") == [*open_now, *said]
        open_now.pop(word).close()
    assert vars(thing) == before
    assert thing.greet("x") == said


def test_one_may_be_put_twice():
    """Both go together."""
    thing = Thing()
    with Shadows() as shadows:
        shadows.put(thing, "greet", saying("a"))
        shadows.put(thing, "greet", saying("b"))
        assert thing.greet("x") == ["a", "b", "hello x"]
    assert vars(thing) == {}


def test_an_error_passes_and_everything_is_put_back():
    """Also what was put there before one that cannot be."""
    thing = Thing()

    def raises(call, name):
        raise ValueError(f"no {name}")

    with pytest.raises(ValueError, match="no x"), Shadows() as shadows:
        shadows.put(thing, "greet", raises)
        thing.greet("x")
    assert vars(thing) == {}
    with pytest.raises(AttributeError, match="nowhere"), Shadows() as shadows:
        shadows.put(thing, "greet", raises)
        shadows.put(thing, "nowhere", raises)
    assert vars(thing) == {}


def test_other_threads_run_the_original():
    """And may have something of their own in front, which goes with them."""
    thing = Thing()

    def there():
        with Shadows() as shadows:
            shadows.put(thing, "greet", saying("b"))
            return thing.greet("x")

    with Shadows() as shadows:
        shadows.put(thing, "greet", saying("a"))
        assert in_thread(lambda: thing.greet("x")) == ["hello x"]
        assert in_thread(there) == ["b", "hello x"]
        assert thing.greet("x") == ["a", "hello x"]
    assert vars(thing) == {}


def test_everywhere_is_in_every_thread():
    """Steps of several devices run in threads of their own."""
    thing = Thing()
    with Shadows(everywhere=True) as shadows:
        shadows.put(thing, "greet", saying("a"))
        assert in_thread(lambda: thing.greet("x")) == ["a", "hello x"]
    assert vars(thing) == {}


def test_a_context_made_inside_sees_it_until_it_is_closed():
    """As a task does that is started there."""
    thing = Thing()
    with Shadows() as shadows:
        shadows.put(thing, "greet", saying("a"))
        inside = contextvars.copy_context()
        assert inside.run(thing.greet, "x") == ["a", "hello x"]
        kept = thing.greet
    assert inside.run(kept, "x") == ["hello x"]


def test_another_thread_may_close():
    """A collector runs where it likes; and closing twice is nothing."""
    thing = Thing()
    shadows = Shadows()
    shadows.put(thing, "greet", saying("a"))
    in_thread(shadows.close)
    assert vars(thing) == {}
    assert thing.greet("x") == ["hello x"]
    shadows.close()
    shadows.put(thing, "greet", saying("b"))
    assert thing.greet("x") == ["b", "hello x"]
    shadows.close()
    assert vars(thing) == {}


def test_many_threads_leave_nothing():
    """Each comes and goes as it likes, on one object."""
    thing, wrong = Thing(), []

    def often(word):
        for _ in range(200):
            with Shadows() as shadows:
                shadows.put(thing, "greet", saying(word))
                if thing.greet("x") != [word, "hello x"]:
                    wrong.append(word)

    threads = [threading.Thread(target=often, args=(word,)) for word in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert vars(thing) == {}


def test_a_function_of_a_module_can_be_shadowed():
    """A module is an instance."""
    module = types.ModuleType("made_up")
    module.double = double = lambda x: [2 * x]
    with Shadows() as shadows:
        shadows.put(module, "double", saying("a"))
        assert module.double(2) == ["a", 4]
    assert module.double is double


def test_a_class_cannot():
    """Every instance of it would change, those of other threads too."""
    with pytest.raises(TypeError, match="on an instance. Received: the class 'Thing'"):
        Shadows().put(Thing, "greet", saying("a"))


def test_it_looks_like_what_it_stands_in_for():
    """Whoever reads the signature or the docstring finds those of the method."""
    thing = Thing()
    assert not is_shadowed(thing, "greet")
    with Shadows() as shadows:
        shadows.put(thing, "greet", saying("a"))
        assert thing.greet.__doc__ == "Say hello."
        assert thing.greet.__name__ == "greet"
        assert is_shadowed(thing, "greet")
        assert is_shadow(thing.greet)
    assert not is_shadowed(thing, "greet")


def test_what_nobody_holds_any_more_can_be_collected():
    """The context does not keep what was put in front in it."""
    thing = Thing()
    Shadows().put(thing, "greet", saying("a"))
    gone = weakref.ref(thing)
    del thing
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("own", [False, True], ids=["class", "instance"])
def test_what_is_looked_up_late_sees_who_comes_and_goes(own):
    """Something compiled keeps what it has read; the instance has what it had."""
    thing = Thing()
    if own:
        thing.greet = lambda name: [f"own {name}"]
    before, said = dict(vars(thing)), thing.greet("x")
    with looked_up_late(thing, "greet"):
        kept = thing.greet
    assert vars(thing) == before
    assert kept("x") == said
    for word in "ab":
        with Shadows() as shadows:
            shadows.put(thing, "greet", saying(word))
            assert kept("x") == [word, *said]
    assert kept("x") == said
