//! The probe: runs inside the image's own interpreter and answers one question.
