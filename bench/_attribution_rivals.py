"""Other tools that explain the same model; whoever is not installed is left out."""

from __future__ import annotations

import numpy as np

CLASS = 3


def xplique(model, x, steps, layer):
    """Xplique, on the Keras model."""
    from xplique.attributions import GradCAM, IntegratedGradients, SmoothGrad

    labels = np.eye(model.output_shape[-1], dtype="float32")[[CLASS] * len(x)]
    integrated = IntegratedGradients(model, batch_size=len(x), steps=steps)
    smooth = SmoothGrad(model, batch_size=len(x), nb_samples=steps)
    cam = GradCAM(model, batch_size=len(x), conv_layer=layer)
    return {
        "ig": lambda: integrated.explain(x, labels),
        "smoothgrad": lambda: smooth.explain(x, labels),
        "cam": lambda: cam.explain(x, labels),
    }


def tf_keras_vis(model, x, steps, layer):
    """tf-keras-vis: maps only."""
    from tf_keras_vis.gradcam import Gradcam
    from tf_keras_vis.utils.scores import CategoricalScore

    cam = Gradcam(model, clone=False)
    score = CategoricalScore([CLASS] * len(x))
    return {"cam": lambda: cam(score, x, penultimate_layer=layer)}


def shap(model, x, steps, layer):
    """Expected gradients of shap, which draw as many points as there are steps."""
    import shap as library

    explainer = library.GradientExplainer(model, np.zeros_like(x[:1]))
    # Asked for all classes, it would do the work ten times: the one of the others only.
    classes = np.full((len(x), 1), CLASS)
    options = {"ranked_outputs": classes, "output_rank_order": "custom", "rseed": 0}
    return {"ig": lambda: explainer.shap_values(x, nsamples=steps, **options)}


def alibi(model, x, steps, layer):
    """Integrated gradients of alibi."""
    from alibi.explainers import IntegratedGradients

    explainer = IntegratedGradients(model, n_steps=steps, internal_batch_size=len(x))
    return {"ig": lambda: explainer.explain(x, baselines=0 * x, target=CLASS)}


def pair_saliency(model, x, steps, layer):
    """PAIR's saliency: one image at a time."""
    import saliency.core as library
    import tensorflow as tf

    @tf.function
    def gradient(images):
        with tf.GradientTape() as tape:
            tape.watch(images)
            score = tf.reduce_sum(model(images, training=False)[:, CLASS])
        return tape.gradient(score, images)

    def call(images, call_model_args=None, expected_keys=None):
        found = gradient(tf.constant(images, tf.float32)).numpy()
        return {library.base.INPUT_OUTPUT_GRADIENTS: found}

    explainer = library.IntegratedGradients()

    def run():
        for image in x:
            explainer.GetMask(
                image, call, x_steps=steps, x_baseline=0 * image, batch_size=len(x)
            )

    return {"ig": run}


def captum(model, x, steps, layer):
    """Captum, on the same architecture in torch."""
    import torch
    from captum import attr

    from bench._mobilenet_torch import MobileNetV2

    twin = MobileNetV2(classes=10).eval()
    weights = sum(p.numel() for p in twin.parameters())
    assert weights == sum(w.value.shape.num_elements() for w in model.trainable_weights)
    images = torch.tensor(np.moveaxis(x, -1, 1).copy())
    integrated = attr.IntegratedGradients(twin)
    cam = attr.LayerGradCam(twin, twin.features[-1])
    return {
        "ig": lambda: integrated.attribute(
            images, target=CLASS, n_steps=steps, internal_batch_size=len(x)
        ),
        "cam": lambda: cam.attribute(images, target=CLASS),
    }


EVERYBODY = {
    "Xplique": xplique,
    "tf-keras-vis": tf_keras_vis,
    "shap": shap,
    "alibi": alibi,
    "PAIR saliency": pair_saliency,
    "Captum, torch": captum,
}
