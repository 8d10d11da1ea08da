"""The cases of the Scale-Up Test Standard in running networks; `experiments/_scale_up.py` runs one of them."""
