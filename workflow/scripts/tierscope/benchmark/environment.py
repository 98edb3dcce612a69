"""Environment of a process that uses TensorFlow, to be set before it is loaded."""

TENSORFLOW_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",  # errors only
    "TF_ENABLE_ONEDNN_OPTS": "0",  # of no use here, but a message from each rank
    "TF_USE_LEGACY_KERAS": "1",  # does not load Keras, a third of the start-up
    "CUDA_VISIBLE_DEVICES": "-1",
}
